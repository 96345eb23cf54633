// The search's script and index are loaded when somebody searches, not with every page.
// Runs before the theme's own script, which asks for both at once.
"use strict";

(() => {
  let wake;
  const awake = new Promise((resolve) => { wake = resolve; });
  const field = (event) => event.target.closest && event.target.closest("[data-md-component=search], [for=__search]");
  const look = (event) => { if (field(event)) wake(); };
  for (const kind of ["focusin", "pointerover", "pointerdown"]) document.addEventListener(kind, look);
  document.addEventListener("keydown", (event) => { if ("fs/".includes(event.key)) wake(); });

  const { Worker, XMLHttpRequest } = window;

  // Stands for a worker until there is one; what it is told meanwhile it is told then.
  class Later extends EventTarget {
    constructor(...from) {
      super();
      this.told = awake.then(() => {
        const worker = new Worker(...from);
        worker.addEventListener("message", (event) => {
          const told = new MessageEvent("message", { data: event.data });
          this.dispatchEvent(told);
          if (this.onmessage) this.onmessage(told);
        });
        return worker;
      });
    }

    postMessage(...message) { this.told.then((worker) => worker.postMessage(...message)); }

    terminate() { this.told.then((worker) => worker.terminate()); }
  }

  window.Worker = function (...from) {
    return /\/workers\/search\./.test(from[0]) ? new Later(...from) : new Worker(...from);
  };
  window.Worker.prototype = Worker.prototype;

  window.XMLHttpRequest = class extends XMLHttpRequest {
    open(method, address, ...more) {
      this.waits = /\/search_index\.json$/.test(address);
      super.open(method, address, ...more);
    }

    send(...body) {
      if (this.waits) awake.then(() => super.send(...body));
      else super.send(...body);
    }
  };
})();
