// The page itself: sections, their contents, and the theme.

function drawSection(section) {
  const heading = html("h2", { id: section.id, tabindex: "-1" }, section.title);
  const body = html("section", { "aria-labelledby": section.id }, heading);
  if (section.about) body.append(html("p", { class: "note" }, section.about));
  for (const block of section.blocks) body.append(drawBlock(block));
  return body;
}

// A page that is opened from disk may not be allowed to store anything.
function keptTheme() {
  try {
    const theme = window.localStorage.getItem("normalign-theme");
    return ["dark", "light"].includes(theme) ? theme : null;
  } catch {
    return null;
  }
}

function keepTheme(theme) {
  try {
    window.localStorage.setItem("normalign-theme", theme);
  } catch {
    // It is forgotten when the page is closed.
  }
}

function themeButton() {
  const button = document.getElementById("theme");
  const isDark = () => document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark"
    : window.matchMedia("(prefers-color-scheme: dark)").matches;
  const name = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Show in ${isDark() ? "light" : "dark"} colours`);
  };
  const kept = keptTheme();
  if (kept) document.documentElement.dataset.theme = kept;
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    keepTheme(document.documentElement.dataset.theme);
    name();
  });
  name();
}

function drawPage() {
  const contents = JSON.parse(document.getElementById("contents").textContent);
  const main = document.getElementById("main");
  const links = document.getElementById("sections");
  const add = (id, title, node) => {
    links.append(html("a", { href: `#${id}` }, title));
    main.append(node);
  };
  const [overview, ...others] = contents.sections;
  add(overview.id, overview.title, drawSection(overview));
  if (contents.browser) add("browser", "Alignments", drawBrowser(contents.browser));
  for (const section of others) add(section.id, section.title, drawSection(section));
  themeButton();
  paper.listen(printChoices);
  document.documentElement.dataset.ready = "yes";
}

drawPage();
