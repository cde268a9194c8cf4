// A round as it goes on: the server renders, this asks for what is newer and puts it in place.

const place = document.getElementById("state");
const said = document.getElementById("said");
const PAUSE_MS = 3000;

function pause(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

function show(text) {
  const state = new DOMParser().parseFromString(text, "text/html").body.firstElementChild;
  place.replaceChildren(state);
  if (said.textContent !== state.dataset.sentence) said.textContent = state.dataset.sentence;
}

async function follow() {
  while (!("over" in place.firstElementChild.dataset)) {
    const version = place.firstElementChild.dataset.version;
    try {
      const response = await fetch(`${place.dataset.live}?after=${version}`);
      if (response.status === 401) {
        location.reload(); // the session is over
        return;
      }
      if (response.ok) show(await response.text());
      else await pause(PAUSE_MS);
    } catch {
      await pause(PAUSE_MS); // the coordinator is being restarted
    }
  }
}

function count() {
  const left = place.querySelector("[data-remaining]");
  if (!left) return;
  const seconds = Math.max(Number(left.dataset.remaining) - 1, 0);
  left.dataset.remaining = seconds;
  left.firstChild.textContent = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

setInterval(count, 1000);
follow();
