// Draws each [data-figure]: fetches its JSON, puts the page's colours in, repeats while visible.
"use strict";

(function draw() {
  const places = [...document.querySelectorAll("[data-figure]")];
  const probe = document.createElement("span");
  const brush = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  let zoom = null;

  // A CSS variable as rgba(): Plotly knows neither oklch() nor light-dark().
  const colour = (place, value) => {
    probe.style.color = value;
    place.parentElement.append(probe);
    brush.clearRect(0, 0, 1, 1);
    brush.fillStyle = getComputedStyle(probe).color;
    probe.remove();
    brush.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = brush.getImageData(0, 0, 1, 1).data;
    return `rgba(${red},${green},${blue},${alpha / 255})`;
  };
  const coloured = (place, text) => {
    const known = {};
    return text.replace(/var\(--[a-z-]+\)/g, (name) => (known[name] ??= colour(place, name)));
  };
  // The axis is UTC; whoever points at a moment reads their own clock too.
  const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long", hourCycle: "h23" });
  const addLocalTime = (line) => {
    line.customdata = line.x.map((moment) => clock.format(new Date(`${moment}Z`)));
    line.hovertemplate = "%{text}<br>%{customdata} by your clock<extra></extra>";
  };

  const show = (place, figure) => {
    figure.layout.font.family = getComputedStyle(document.body).fontFamily;
    if (zoom) figure.layout.xaxis.range = zoom;
    addLocalTime(figure.data[0]);
    const sheet = place.closest("section");
    sheet.querySelector("[data-chart-now]").textContent = figure.layout.meta.now;
    sheet.querySelector("[data-chart-peak]").textContent = figure.layout.meta.peak;
    const isNew = !place.layout;
    Plotly.react(place, figure.data, figure.layout, { displayModeBar: false, responsive: true, doubleClick: false });
    place.querySelector(".frame")?.remove();
    if (!isNew) return;
    // What is looked at closer in one is looked at in all; only a person's drag names its ends singly.
    place.on("plotly_relayout", (change) => {
      if (!change["xaxis.range[0]"]) return;
      zoom = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
      places.filter((one) => one !== place && one.layout)
        .forEach((one) => Plotly.relayout(one, { "xaxis.range": [...zoom] }));
    });
    place.on("plotly_doubleclick", () => {
      zoom = null;
      places.forEach(ask);
    });
  };

  const say = (place, words) => {
    const word = place.closest("section").querySelector("[data-chart-word]");
    word.hidden = !words;
    word.textContent = words;
  };

  async function ask(place) {
    place.asked = Date.now();
    try {
      const answer = await fetch(place.dataset.figure, { signal: AbortSignal.timeout(8000) });
      if (!answer.ok) throw new Error(answer.status);
      show(place, JSON.parse(coloured(place, await answer.text())));
      say(place, "");
    } catch {
      say(place, "Not refreshed; it is tried again.");
    }
  }

  const due = (place) => Date.now() - (place.asked ?? 0) >= place.dataset.every * 1000;
  const held = () => sessionStorage.getItem("live-paused") === "yes";
  places.forEach(ask);
  setInterval(() => {
    if (document.visibilityState === "visible" && !held()) places.filter(due).forEach(ask);
  }, 1000);
  new MutationObserver(() => places.forEach(ask))
    .observe(document.documentElement, { attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => places.forEach(ask));
})();
