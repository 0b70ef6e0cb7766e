// Small helpers for every page: theme, keyboard, dialogs, copying. Everything else works without them.
"use strict";

const root = document.documentElement;

function onClick(selector, act) {
  document.addEventListener("click", (event) => {
    const found = event.target.closest(selector);
    if (found) act(found, event);
  });
}

// Theme: system, then the other one; a cookie remembers it, so the server paints the first frame right.
onClick("[data-theme-switch]", () => {
  const dark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  document.cookie = `theme=${root.dataset.theme};path=/;max-age=31536000;samesite=lax`;
});

// On a phone the tabs scroll sideways: where one is stands in view.
for (const bar of document.querySelectorAll(".tabs")) {
  const here = bar.querySelector("[aria-current]")?.getBoundingClientRect();
  if (here) bar.scrollLeft += here.left - bar.getBoundingClientRect().left - (bar.clientWidth - here.width) / 2;
}

// A moment's title has it in UTC; whoever points at it reads their own clock too.
const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long", hourCycle: "h23" });
document.addEventListener("mouseover", (event) => {
  const time = event.target.closest("time[datetime][title$=UTC]");
  if (time) time.title += `, ${clock.format(new Date(time.dateTime))} by your clock`;
});

// The form of the time zone offers the browser's own.
for (const offer of document.querySelectorAll("[data-browser-zone]")) {
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  const select = offer.closest("form").querySelector("select");
  offer.hidden = ![...select.options].some((one) => one.value === timeZone);
  offer.querySelector("b").textContent = timeZone;
  offer.querySelector("button").addEventListener("click", () => { select.value = timeZone; });
}

onClick("[data-copy]", async (button) => {
  const source = document.getElementById(button.dataset.copy);
  const said = button.getAttribute("aria-label");
  try {
    await navigator.clipboard.writeText(source.textContent.trim());
    button.setAttribute("aria-label", "Copied");
  } catch {
    getSelection().selectAllChildren(source);
    button.setAttribute("aria-label", "Selected, copy with Ctrl-C");
  }
  button.dataset.said = button.getAttribute("aria-label");
  setTimeout(() => {
    button.setAttribute("aria-label", said);
    delete button.dataset.said;
  }, 1500);
});

// A link marked data-dialog opens its page's form in a dialog; without script it is simply a page.
onClick("a[data-dialog]", async (link, event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const dialog = document.getElementById("dialog");
  try {
    const answer = await fetch(link.href, { headers: { "HX-Request": "true" }, signal: AbortSignal.timeout(5000) });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const form = page.getElementById("live");
    if (!answer.ok || !form) throw new Error("not a form");
    form.removeAttribute("id");
    dialog.replaceChildren(form);
    form.querySelectorAll("[data-expected]").forEach(checkTyped);
    dialog.showModal();
    dialog.querySelector("input:not([type=hidden]), textarea")?.focus();
  } catch {
    location.assign(link.href);
  }
});

onClick("[data-close]", (button, event) => {
  const dialog = button.closest("dialog");
  if (!dialog) return;
  event.preventDefault();
  dialog.close();
});

onClick("dialog", (dialog, event) => {
  if (event.target === dialog) dialog.close();
});

// The final button stays shut until the asked-for name is typed; the server checks it again.
function checkTyped(field) {
  const button = field.form?.querySelector("[data-needs-typed]");
  if (button) button.disabled = field.value.trim() !== field.dataset.expected;
}
document.addEventListener("input", (event) => {
  if (event.target.matches("[data-expected]")) checkTyped(event.target);
  // Arrow keys change a closed select with every press, so only a pointer's choice sends at once.
  if (event.target.matches("[data-submit-on-change]:not(:focus-visible)")) event.target.form.requestSubmit();
});
const checkAll = () => document.querySelectorAll("[data-expected]").forEach(checkTyped);
checkAll();
document.body.addEventListener("htmx:afterSwap", checkAll);

// A sent form shows that it works and is not sent twice; coming back to the page frees it.
document.addEventListener("submit", (event) => {
  if (event.target.method !== "post") return;
  if (event.target.dataset.sent) event.preventDefault();
  event.target.dataset.sent = "yes";
  event.submitter?.setAttribute("data-busy", "");
});
addEventListener("pageshow", () => {
  document.querySelectorAll("[data-sent]").forEach((form) => delete form.dataset.sent);
  document.querySelectorAll("[data-busy]").forEach((button) => button.removeAttribute("data-busy"));
});

// Menus close when the pointer or the focus goes elsewhere.
for (const kind of ["click", "focusin"]) {
  document.addEventListener(kind, (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      if (!menu.contains(event.target)) menu.open = false;
    }
  });
}

// Keys: `/` searches, `g` then a letter goes to a page, `?` lists them, Escape closes menus.
let waitingForPage = 0;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") document.querySelectorAll("details.menu[open]").forEach((menu) => { menu.open = false; });
  if (event.target.closest("input, textarea, select, [contenteditable], dialog[open]")) return;
  const now = Date.now();
  if (now - waitingForPage < 1200) {
    waitingForPage = 0;
    document.querySelector(`a[data-key="${CSS.escape(event.key)}"]`)?.click();
  } else if (event.key === "g") {
    waitingForPage = now;
  } else if (event.key === "/") {
    event.preventDefault();
    document.querySelector("[data-search]")?.select();
  } else if (event.key === "?") {
    document.getElementById("keys")?.showModal();
  }
});
onClick("[data-open-keys]", (link, event) => {
  event.preventDefault();
  document.getElementById("keys").showModal();
});
