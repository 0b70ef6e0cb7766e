// Lights up what depends on a cluster or a flow while the pointer or the focus is on it.
"use strict";

for (const kind of ["pointerover", "focusin"]) {
  document.addEventListener(kind, (event) => {
    const found = event.target.closest?.(".picture [data-node], .picture [data-ends]");
    const names = (found?.dataset.node ?? found?.dataset.ends ?? "").split(" ").filter(Boolean);
    for (const thing of document.querySelectorAll(".picture [data-node], .picture [data-ends]")) {
      const own = (thing.dataset.node ?? thing.dataset.ends).split(" ");
      const lit = found && (found.dataset.node
        ? own.includes(found.dataset.node)
        : thing.dataset.ends === found.dataset.ends || names.includes(thing.dataset.node));
      thing.toggleAttribute("data-lit", Boolean(lit));
    }
  });
}
