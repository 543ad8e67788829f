// Search of the site from a disk: browsers refuse workers to pages of file:, so the search runs in a hidden frame.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      const inside = frame.contentWindow
      const load = address => new Promise((done, failed) => {
        const script = inside.document.createElement("script")
        script.src = address
        script.onload = done
        script.onerror = failed
        inside.document.body.append(script)
      })
      inside.importScripts = (...urls) => urls.reduce((before, each) => before.then(() => load(each)), Promise.resolve())
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      this.ready = load(new URL(url, document.baseURI).href)
      this.inside = inside
      this.frame = frame
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })))
    }
    terminate() {
      this.frame.remove()
    }
  }
  window.Worker = window.IFrameWorker
}
