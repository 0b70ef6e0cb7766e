// Keeps #live fresh: asks for the same address again while the page is visible, says how old it is,
// and changes only what differs, so that focus, selection and scroll positions stay where they are.
"use strict";

function patch(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || old.id !== fresh.id) {
    old.replaceWith(fresh);
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  // What the person opened or typed is theirs.
  const kept = new Set(old.nodeName === "DETAILS" ? ["open"] : []);
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !kept.has(name)) old.removeAttribute(name);
  }
  for (const { name, value } of [...fresh.attributes]) {
    if (old.getAttribute(name) !== value && !kept.has(name)) old.setAttribute(name, value);
  }
  if (old === document.activeElement && old.matches("input, textarea, select")) return;
  const before = [...old.childNodes];
  const after = [...fresh.childNodes];
  after.forEach((node, at) => (before[at] ? patch(before[at], node) : old.append(node)));
  before.slice(after.length).forEach((node) => node.remove());
}

htmx.defineExtension("calm", {
  isInlineSwap: (style) => style === "calm",
  handleSwap(style, target, fragment) {
    if (style !== "calm") return false;
    patch(target, fragment.firstElementChild);
    return [document.getElementById("live")];
  },
});

(function keepFresh() {
  const live = document.getElementById("live");
  const sign = document.getElementById("live-sign");
  const seconds = Number(live?.dataset.every);
  if (!seconds || !sign) return;
  const word = sign.querySelector("[data-word]");
  const button = sign.querySelector("button");
  const banner = document.getElementById("stale-banner");
  // A page that the server kept from before its database went silent; the first answer takes that away.
  let heard = Number(live.dataset.heard) || Date.now();
  let asked = Date.now();
  let paused = sessionStorage.getItem("live-paused") === "yes";

  // An open dialog or menu is something a person is doing: nothing moves under it.
  const held = () => paused || document.querySelector("dialog[open], details.menu[open]");

  const ask = () => {
    asked = Date.now();
    htmx.ajax("GET", location.href, { source: "#live", target: "#live", swap: "calm" }).catch(() => {});
  };

  const show = () => {
    const age = Math.round((Date.now() - heard) / 1000);
    const stale = !held() && ("heard" in live.dataset || age > Math.max(10, seconds * 3));
    const how = paused ? "paused" : held() ? "held" : stale ? "stale" : "live";
    word.textContent = `${how}, ${age} s ago`;
    word.dataset.state = { live: "good", stale: "stale" }[how] ?? "paused";
    button.setAttribute("aria-label", paused ? "Go on refreshing" : "Pause refreshing");
    button.querySelector("use").setAttribute("href", paused ? button.dataset.play : button.dataset.pause);
    document.body.toggleAttribute("data-stale", stale || (paused && age > 60));
    banner.hidden = !stale;
    if (stale) banner.querySelector("time").textContent = `${new Date(heard).toISOString().slice(11, 19)} UTC`;
  };

  setInterval(() => {
    if (document.visibilityState !== "visible") return;
    // The server asks for no more: what the page shows has ended.
    sign.hidden = !live.dataset.every;
    if (sign.hidden) return;
    if (!held() && Date.now() - asked >= seconds * 1000) ask();
    show();
  }, 1000);

  button.addEventListener("click", () => {
    paused = !paused;
    sessionStorage.setItem("live-paused", paused ? "yes" : "no");
    if (!paused) ask();
    show();
  });

  // The menu stands outside of what is fresh; its counts come along with it.
  document.body.addEventListener("htmx:afterSwap", () => {
    for (const mark of document.querySelectorAll("[data-count]")) {
      const figure = live.dataset[mark.dataset.count] ?? mark.textContent;
      mark.textContent = figure;
      if (mark.title) mark.hidden = figure === "0";
      if (mark.dataset.count === "alerts") mark.dataset.state = live.dataset.tone ?? "";
    }
  });

  document.body.addEventListener("htmx:beforeSwap", (event) => {
    const { xhr } = event.detail;
    if (xhr.status === 200 && xhr.responseText.includes('id="live"')) {
      heard = Date.now();
    } else {
      event.detail.shouldSwap = false;
      // Signed out meanwhile, or the thing is gone: the whole page says so better than a fragment.
      if ([200, 401, 403, 404].includes(xhr.status)) location.reload();
    }
  });
  sign.hidden = false;
  show();
})();
