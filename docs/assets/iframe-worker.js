// Search runs in a worker, and browsers start none for a page that was opened from the disk. There,
// a hidden frame takes its place.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.appendChild(frame)
      this.inside = frame.contentWindow
      this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      const script = frame.contentDocument.createElement("script")
      this.started = new Promise(done => script.addEventListener("load", done))
      script.src = url
      frame.contentDocument.body.appendChild(script)
    }
    postMessage(data) {
      this.started.then(() =>
        this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data })))
    }
  }
}
