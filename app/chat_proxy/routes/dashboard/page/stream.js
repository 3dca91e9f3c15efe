// Server-sent events read by fetch: EventSource cannot send the key as a header, and a key in an
// address would end up in logs.

const KEY = "chat-proxy-admin-key";
const LONGEST_PAUSE = 15_000;

export const keyInTab = () => sessionStorage.getItem(KEY) ?? "";
export const keepKey = (key) => sessionStorage.setItem(KEY, key);

export class Unauthorised extends Error {}

export async function ask(path, signal) {
  const key = keyInTab();
  const headers = key ? { authorization: `Bearer ${key}` } : {};
  const answer = await fetch(path, { headers, signal, cache: "no-store", credentials: "omit" });
  if (answer.status === 401) throw new Unauthorised();
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  return answer;
}

export async function follow(path, { onDocument, onState, onRefused }) {
  let pause = 500;
  for (;;) {
    try {
      const answer = await ask(path);
      onState("on");
      for await (const document of documentsOf(answer.body)) {
        pause = 500;
        onDocument(document);
      }
    } catch (error) {
      if (error instanceof Unauthorised) return onRefused();
    }
    onState("off");
    await new Promise((resolve) => setTimeout(resolve, pause));
    pause = Math.min(pause * 2, LONGEST_PAUSE);
  }
}

async function* documentsOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      if (event.startsWith("data: ")) yield JSON.parse(event.slice(6));
    }
  }
}
