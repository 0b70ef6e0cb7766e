// The palette: Ctrl-K, a part of a name, Enter. Pages, tabs and buttons of this page are found at
// once, flows, topics, groups, clusters and runners by the search page, which works without this.
"use strict";

(function palette() {
  const dialog = document.getElementById("palette");
  if (!dialog) return;
  const field = dialog.querySelector("input");
  const list = dialog.querySelector("[role=listbox]");
  const word = dialog.querySelector("[role=status]");
  let found = [];
  let chosen = 0;
  // Only what a person chose is kept when more is found; else the first stands ready for Enter.
  let moved = false;
  let timer = 0;
  let asked = new AbortController();

  const named = (link) => [...link.childNodes].find((node) => node.nodeType === Node.TEXT_NODE && node.nodeValue.trim())?.nodeValue.trim();
  const these = (selector, kind) =>
    [...document.querySelectorAll(selector)]
      .map((link) => ({ name: named(link), kind, where: "", link: link.href, open: () => link.click() }))
      .filter((one) => one.name);

  function near(query) {
    const all = [...these(".side li a", "page"), ...these(".tabs a", "tab"), ...these(".page-head a.button", "act")];
    return all.filter((one) => one.name.toLowerCase().includes(query.toLowerCase()));
  }

  function choose(at) {
    chosen = Math.max(0, Math.min(at, found.length - 1));
    [...list.children].forEach((row, place) => row.setAttribute("aria-selected", place === chosen));
    const row = list.children[chosen];
    field.setAttribute("aria-activedescendant", row ? row.id : "");
    row?.scrollIntoView({ block: "nearest" });
  }

  function row(one, at) {
    const item = document.createElement("li");
    item.role = "option";
    item.id = `palette-${at}`;
    for (const [text, name] of [[one.name, one.open ? "" : "name"], [[one.kind, one.where].filter(Boolean).join(", "), "caption"]]) {
      const part = document.createElement("span");
      part.className = name;
      part.textContent = text;
      item.append(part);
    }
    item.addEventListener("click", () => open(one));
    item.addEventListener("mousemove", (event) => {
      if (at === chosen || !(event.movementX || event.movementY)) return;
      moved = true;
      choose(at);
    });
    return item;
  }

  function show(hits, said) {
    const before = moved ? found[chosen]?.link : undefined;
    const query = field.value.trim();
    found = [...near(query), ...hits];
    const all = `${dialog.dataset.searchAt}?q=${encodeURIComponent(query)}`;
    if (query) found.push({ name: `Search for “${query}”`, kind: "search", where: "", link: all });
    list.replaceChildren(...found.map(row));
    choose(Math.max(0, found.findIndex((one) => one.link === before)));
    word.textContent = said;
  }

  async function ask() {
    asked.abort();
    asked = new AbortController();
    const { signal } = asked;
    const query = field.value.trim();
    try {
      const answer = await fetch(`${dialog.dataset.searchAt}?as=json&q=${encodeURIComponent(query)}`, {
        signal: AbortSignal.any([signal, AbortSignal.timeout(5000)]),
      });
      const hits = await answer.json();
      show(hits, hits.length ? `${hits.length} found by name` : "Nothing else has this in its name");
    } catch {
      if (!signal.aborted) word.textContent = "The search does not answer; pages of the menu are found all the same.";
    }
  }

  function open(one) {
    dialog.close();
    if (one.open) one.open();
    else location.assign(one.link);
  }

  field.addEventListener("input", () => {
    clearTimeout(timer);
    asked.abort();
    moved = false;
    const wanted = field.value.trim().length > 1;
    show([], wanted ? "Searching" : "");
    if (wanted) timer = setTimeout(ask, 150);
  });

  field.addEventListener("keydown", (event) => {
    const turn = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (turn && found.length) {
      event.preventDefault();
      moved = true;
      choose((chosen + turn + found.length) % found.length);
    } else if (event.key === "Enter" && found[chosen]) {
      event.preventDefault();
      open(found[chosen]);
    }
  });

  function toggle() {
    if (dialog.open) return dialog.close();
    if (document.querySelector("dialog[open]")) return;
    field.value = "";
    moved = false;
    show([], "");
    dialog.showModal();
    field.focus();
  }

  document.addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.altKey || event.key.toLowerCase() !== "k") return;
    event.preventDefault();
    toggle();
  });
  dialog.addEventListener("close", () => asked.abort());
  onClick("[data-open-palette]", toggle);
})();
