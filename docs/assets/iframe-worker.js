// Browsers start no worker for a page that was opened as a file. There a hidden frame runs the search in its place.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super()
      const waiting = []
      this.postMessage = (data) => waiting.push(data)
      const frame = document.createElement("iframe")
      frame.hidden = true
      frame.title = "search"
      frame.addEventListener("load", () => {
        const inside = frame.contentWindow
        const script = inside.document.createElement("script")
        inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
        script.src = address
        script.addEventListener("load", () => {
          this.postMessage = (data) => inside.dispatchEvent(new inside.MessageEvent("message", { data }))
          waiting.splice(0).forEach((data) => this.postMessage(data))
        })
        inside.document.body.append(script)
      }, { once: true })
      document.documentElement.append(frame)
    }
  }
}
