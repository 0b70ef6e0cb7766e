// The visible elements with text by what decides the contrast of each: elements of one key have the
// same contrast. Returns the keys; the elements stay in the page for the second function.
() => {
  const chains = new Map([[null, ""]]);
  const fields = "input:not([type=hidden]), select, textarea";
  // What lies behind an element: its ancestors. What is out of the flow may lie over others.
  const behind = (one) => {
    if (!chains.has(one)) {
      const seen = getComputedStyle(one);
      const flows = ["static", "relative"].includes(seen.position);
      const own = [
        seen.backgroundColor, seen.backgroundImage, seen.opacity, seen.filter, seen.mixBlendMode,
        flows ? "" : `${one.tagName}.${one.className}`,
      ].join(" ");
      const above = behind(one.parentElement);
      chains.set(one, above.endsWith(`|${own}`) ? above : `${above}|${own}`);
    }
    return chains.get(one);
  };
  const ownText = (one) =>
    [...one.childNodes].map((node) => (node.nodeType === Node.TEXT_NODE ? node.data : "")).join("");
  const keyOf = (one, length) => {
    const seen = getComputedStyle(one);
    const box = one.getBoundingClientRect();
    const around = one.tagName === "A" ? getComputedStyle(one.parentElement) : {};
    const isDisabled = one.closest(":disabled, [aria-disabled=true]") !== null;
    return [
      one.tagName === "A" || one.matches(fields) ? `${one.tagName} ${one.type}` : "",
      behind(one), seen.color, seen.fontSize, seen.fontWeight, seen.textShadow,
      seen.textDecorationLine, around.color, around.fontWeight,
      // Axe skips what is disabled, too small to be seen, or a single letter.
      isDisabled || Boolean(one.closest("label")?.control?.disabled),
      box.width > 2 && box.height > 2, length > 1,
    ].join(";");
  };
  window.elementsByColors = new Map();
  for (const one of document.body.querySelectorAll("*")) {
    const length = one.matches(fields) ? 9 : ownText(one).trim().length;
    if (length === 0 || !one.checkVisibility({ visibilityProperty: true })) continue;
    const key = keyOf(one, length);
    if (!elementsByColors.has(key)) elementsByColors.set(key, []);
    elementsByColors.get(key).push(one);
  }
  return [...elementsByColors.keys()];
}
// ---
// Has axe look at two elements of each key, or at each element: its violations, and the keys that it judged.
async ([keys, options, each]) => {
  const chosen = new Map(keys.map((key) => {
    const all = elementsByColors.get(key);
    return [key, each ? all : [all[0], all[Math.floor(all.length / 2)]]];
  }));
  const include = [...new Set([...chosen.values()].flat())];
  const { passes, violations } = await axe.run({ include }, options);
  const judged = new Set(
    [...passes, ...violations]
      .filter((rule) => rule.id === "color-contrast")
      .flatMap((rule) => rule.nodes.map((node) => node.element)),
  );
  return {
    violations: violations.map((rule) => ({
      id: rule.id,
      nodes: rule.nodes.map(({ html, failureSummary }) => ({ html, failureSummary })),
    })),
    judged: keys.filter((key) => chosen.get(key).some((one) => judged.has(one))),
  };
}
