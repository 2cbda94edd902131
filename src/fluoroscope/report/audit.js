"use strict";
document.documentElement.classList.add("js");
for (const viewer of document.querySelectorAll(".viewer")) {
  const input = viewer.querySelector("input");
  const output = viewer.querySelector("output");
  const stages = [...viewer.querySelectorAll(".stage")];
  const names = stages.map((stage) => stage.querySelector("span").textContent);
  const show = () => {
    const place = Number(input.value) / 100;
    const here = Math.floor(place);
    stages.forEach((stage, i) => { stage.style.opacity = i <= here ? 1 : Math.max(0, place - i + 1); });
    const name = place === here ? names[here] : viewer.dataset.between.replace("{0}", names[here].toLowerCase()).replace("{1}", names[here + 1].toLowerCase());
    input.setAttribute("aria-valuetext", name);
    if (output.textContent !== name) output.textContent = name;
  };
  input.addEventListener("input", show);
  show();
}
// Screen readers are told which of the two pages is open; Escape closes what hovering opened.
const readers = [...document.querySelectorAll(".readers a")];
const here = () => {
  const target = document.getElementById(location.hash.slice(1));
  const open = target && target.closest("#engineer") ? "#engineer" : "#officer";
  readers.forEach((link) => link.getAttribute("href") === open ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current"));
};
addEventListener("hashchange", here);
here();
addEventListener("keydown", (event) => { if (event.key === "Escape") document.body.classList.add("quiet"); });
for (const kind of ["pointerover", "focusin"]) addEventListener(kind, () => document.body.classList.remove("quiet"));
// A browser that does not print what is folded is helped to.
const folded = document.querySelectorAll("details");
addEventListener("beforeprint", () => folded.forEach((each) => { each.dataset.was = each.open; each.open = true; }));
addEventListener("afterprint", () => folded.forEach((each) => { each.open = each.dataset.was === "true"; }));
