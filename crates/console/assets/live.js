// Live updates of a run's page. Without this script the page reloads itself.
"use strict";
{
  const root = document.querySelector("[data-live]");
  const line = document.getElementById("stream");
  const states = {
    connecting: "Connecting for live updates…",
    live: "● Live: the page updates itself",
    again: "○ Connection lost; connecting again…",
    off: "○ Live updates are off; reload the page to see progress",
    out: "○ The session has ended; reload the page to sign in",
  };
  let source = null;
  let timer = 0;
  let wait = 2000;
  let last = root?.dataset.sequence;
  let tenths = null;

  const show = (state) => { if (line.textContent !== states[state]) line.textContent = states[state]; };

  // Replaces the content of a region; the focus stays on the same link.
  function swap(name, html) {
    const region = document.querySelector(`[data-region="${CSS.escape(name)}"]`);
    if (!region) return;
    const focused = region.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    const template = document.createElement("template");
    template.innerHTML = html;
    region.replaceChildren(template.content);
    if (focused) {
      const links = [...region.querySelectorAll("a")];
      links.find((link) => link.getAttribute("href") === focused)?.focus({ preventScroll: true });
    }
  }

  // Tells a screen reader about progress at each tenth of the tasks.
  function announce() {
    const bar = root.querySelector("progress");
    if (!bar || !bar.max) return;
    const now = Math.floor((bar.value / bar.max) * 10);
    const spoken = document.getElementById("spoken");
    if (tenths !== null && now > tenths) spoken.textContent = bar.textContent;
    tenths = now;
  }

  function close() {
    clearTimeout(timer);
    source?.close();
    source = null;
  }

  function retry() {
    close();
    show(wait > 30000 ? "off" : "again");
    timer = setTimeout(open, wait + Math.random() * 1000);
    wait = Math.min(wait * 2, 60000);
  }

  function open() {
    close();
    source = new EventSource(`${root.dataset.live}?from=${encodeURIComponent(last)}`);
    source.addEventListener("open", () => { wait = 2000; show("live"); });
    source.addEventListener("frame", (event) => {
      last = event.lastEventId;
      for (const [name, html] of Object.entries(JSON.parse(event.data))) swap(name, html);
      announce();
    });
    source.addEventListener("end", () => { close(); location.reload(); });
    source.addEventListener("signed-out", () => { close(); root.removeAttribute("data-live"); show("out"); });
    // The browser connects again by itself after a lost connection, but not after a refusal.
    source.addEventListener("error", () => {
      if (!source || source.readyState === EventSource.CLOSED) retry();
      else show("again");
    });
  }

  if (root && line) {
    show("connecting");
    announce();
    open();
    // A hidden page needs no connection: browsers have only a few for each host.
    document.addEventListener("visibilitychange", () => {
      if (!root.dataset.live) return;
      if (document.hidden) close();
      else if (!source) { show("connecting"); open(); }
    });
    window.addEventListener("pagehide", close);
    window.addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
  }
}
