// A small language model behind the OpenAI chat-completions wire: node server.mjs MODEL.gguf [PORT]
//
// One request at a time, on the CPU. Tools are not offered to the model: at this size it cannot use them.
import { createServer } from "node:http";
import { basename } from "node:path";
import { getLlama, LlamaChatSession } from "node-llama-cpp";

const [modelPath, port = "8135"] = process.argv.slice(2);
if (!modelPath) {
  console.error("usage: node server.mjs MODEL.gguf [PORT]");
  process.exit(2);
}
const llama = await getLlama({ gpu: false, build: "never" });
const model = await llama.loadModel({ modelPath });
const context = await model.createContext({ contextSize: 4096 });

const turns = {
  system: (text) => ({ type: "system", text }),
  user: (text) => ({ type: "user", text }),
  assistant: (text) => ({ type: "model", response: [text] }),
};

async function complete({ messages, response_format, temperature = 0, max_tokens = 256 }) {
  const sequence = context.getSequence();
  try {
    const session = new LlamaChatSession({ contextSequence: sequence });
    const history = messages.map(({ role, content }) => (turns[role] ?? turns.user)(content ?? ""));
    session.setChatHistory(history.slice(0, -1));
    const schema = response_format?.json_schema?.schema;
    const grammar = schema && (await llama.createGrammarForJsonSchema(schema));
    const before = sequence.tokenMeter.getState();
    const answer = await session.promptWithMeta(messages.at(-1).content, { grammar, temperature, maxTokens: max_tokens });
    const used = sequence.tokenMeter.diff(before);
    return {
      object: "chat.completion",
      model: basename(modelPath),
      choices: [{
        index: 0,
        message: { role: "assistant", content: answer.responseText },
        finish_reason: answer.stopReason === "maxTokens" ? "length" : "stop",
      }],
      usage: { prompt_tokens: used.usedInputTokens, completion_tokens: used.usedOutputTokens },
    };
  } finally {
    sequence.dispose();
  }
}

let last = Promise.resolve();
createServer(async (request, response) => {
  const answer = (status, body) =>
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  if (request.method !== "POST" || request.url !== "/v1/chat/completions") {
    return answer(404, { error: { message: "only POST /v1/chat/completions is served" } });
  }
  try {
    const body = JSON.parse(Buffer.concat(await request.toArray()).toString());
    last = last.catch(() => {}).then(() => complete(body));
    answer(200, await last);
  } catch (error) {
    answer(400, { error: { message: String(error) } });
  }
}).listen(Number(port), "127.0.0.1", () => console.log(`http://127.0.0.1:${port}/v1`));
