// openai for Node: `node openai_node.mjs SCENARIO`.
import { readFileSync } from "node:fs";

const { PROXY, KEY, MODEL, TASK } = process.env;

// configuration
import OpenAI from "openai";

const client = new OpenAI({ baseURL: PROXY, apiKey: KEY });
// end of configuration

const readPage = {
  type: "function",
  function: {
    name: "read_page",
    description: "Read a page.",
    parameters: { type: "object", properties: { number: { type: "integer" } } },
  },
};
const user = (content) => ({ role: "user", content });
const page = (number) => readFileSync(`page-${String(number).padStart(2, "0")}.txt`, "utf8");
const ask = (messages, more = {}) => client.chat.completions.create({ model: MODEL, messages, ...more });
const show = async (messages) => console.log((await ask(messages)).choices[0].message.content);

const scenarios = {
  hello: () => show([user(TASK)]),

  async streaming() {
    let said = "";
    for await (const chunk of await ask([user(TASK)], { stream: true })) {
      said += chunk.choices[0]?.delta?.content ?? "";
    }
    console.log(said);
  },

  async tools() {
    const messages = [{ role: "system", content: "Read the pages." }, user(TASK)];
    for (;;) {
      const { message } = (await ask(messages, { tools: [readPage] })).choices[0];
      messages.push(message);
      if (!message.tool_calls?.length) return console.log(message.content);
      for (const call of message.tool_calls) {
        const content = page(JSON.parse(call.function.arguments).number);
        messages.push({ role: "tool", tool_call_id: call.id, content });
      }
    }
  },

  image() {
    const url = `data:image/png;base64,${readFileSync("picture.png").toString("base64")}`;
    return show([user([{ type: "text", text: TASK }, { type: "image_url", image_url: { url } }])]);
  },

  overflow() {
    const turns = Array.from({ length: 30 }, (_, index) => [
      user(page(index + 1)),
      { role: "assistant", content: "Noted." },
    ]);
    return show([...turns.flat(), user(TASK)]);
  },

  async abort() {
    const stream = await ask([user(TASK)], { stream: true });
    for await (const chunk of stream) {
      if (chunk.choices[0]?.delta?.content) return stream.controller.abort();
    }
  },
};

await scenarios[process.argv[2]]();
