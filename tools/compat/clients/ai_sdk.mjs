// Vercel AI SDK: `node ai_sdk.mjs SCENARIO`.
import { readFileSync } from "node:fs";
import { generateText, isStepCount, streamText, tool } from "ai";
import { z } from "zod";

const { PROXY, KEY, MODEL, TASK } = process.env;

// configuration
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";

const model = createOpenAICompatible({ name: "local", baseURL: PROXY, apiKey: KEY })(MODEL);
// end of configuration

const page = (number) => readFileSync(`page-${String(number).padStart(2, "0")}.txt`, "utf8");
const readPage = tool({
  description: "Read a page.",
  inputSchema: z.object({ number: z.number().int() }),
  execute: ({ number }) => page(number),
});
const show = async (asked) => console.log((await generateText({ model, ...asked })).text);

const scenarios = {
  hello: () => show({ prompt: TASK }),

  async streaming() {
    let said = "";
    for await (const piece of streamText({ model, prompt: TASK }).textStream) said += piece;
    console.log(said);
  },

  tools: () => show({ prompt: TASK, tools: { read_page: readPage }, stopWhen: isStepCount(99) }),

  image() {
    const picture = { type: "image", image: readFileSync("picture.png"), mediaType: "image/png" };
    return show({ messages: [{ role: "user", content: [{ type: "text", text: TASK }, picture] }] });
  },

  overflow() {
    const turns = Array.from({ length: 30 }, (_, index) => [
      { role: "user", content: page(index + 1) },
      { role: "assistant", content: "Noted." },
    ]);
    return show({ messages: [...turns.flat(), { role: "user", content: TASK }] });
  },

  async abort() {
    const controller = new AbortController();
    const { textStream } = streamText({ model, prompt: TASK, abortSignal: controller.signal });
    for await (const piece of textStream) if (piece) return controller.abort();
  },
};

await scenarios[process.argv[2]]();
