// Puts what the server sends in the place of what it sent before; what has not changed stays, and so does the focus.
"use strict";
const region = document.querySelector("[data-events]");
const link = document.querySelector("#link");
const news = document.querySelector("#news");

function keyed(root) {
  return [...root.querySelectorAll("[data-key]")];
}

function focusedAt() {
  const here = document.activeElement;
  return region.contains(here) ? here.id || here.getAttribute("href") : null;
}

function focusAgain(name) {
  if (name === null || focusedAt() === name) return;
  const found = [...region.querySelectorAll("[id], [href]")].find((e) => e.id === name || e.getAttribute("href") === name);
  if (found) found.focus({ preventScroll: true });
}

function show(html) {
  const made = document.createElement("template");
  made.innerHTML = html;
  const before = keyed(region);
  const after = keyed(made.content);
  const focus = focusedAt();
  const states = new Map(before.map((e) => [e.dataset.key, e.dataset.state]));
  const same = before.length === after.length && before.every((e, i) => e.dataset.key === after[i].dataset.key);
  if (same) {
    before.forEach((old, i) => { if (old.outerHTML !== after[i].outerHTML) old.replaceWith(after[i]); });
  } else {
    region.replaceChildren(made.content);
  }
  focusAgain(focus);
  const turned = keyed(region).filter((e) => e.dataset.state && states.has(e.dataset.key) && states.get(e.dataset.key) !== e.dataset.state);
  if (turned.length) news.textContent = turned.map((e) => `${e.dataset.name}: ${e.dataset.state}`).join("; ");
}

if (region) {
  const source = new EventSource(region.dataset.events);
  source.onopen = () => { link.textContent = "live"; link.dataset.link = "live"; };
  source.onmessage = (event) => show(JSON.parse(event.data).html);
  source.onerror = () => {
    link.textContent = source.readyState === EventSource.CLOSED ? "no longer live: reload the page" : "the server does not answer; trying again";
    link.dataset.link = "lost";
  };
  source.addEventListener("gone", () => {
    source.close();
    link.textContent = "this run is gone: it was moved or deleted";
    link.dataset.link = "lost";
  });
}
