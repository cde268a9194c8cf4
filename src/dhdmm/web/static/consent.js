// While the round goes on: what happened so far, asked of the program on this machine.
// When it is over the page is drawn once more by the program itself.

const PAUSE = 700; // milliseconds

async function look() {
  const response = await fetch("/progress", { headers: { Accept: "application/json" } });
  const progress = await response.json();
  const list = document.getElementById("said");
  for (const words of progress.said.slice(list.childElementCount)) {
    const line = document.createElement("li");
    line.textContent = words;
    list.append(line);
  }
  if (progress.state === "running") setTimeout(watch, PAUSE);
  else window.location.reload();
}

function watch() {
  look().catch(() => {
    document.getElementById("ending").textContent = "The program has ended; what it found is in its terminal.";
  });
}

watch();
