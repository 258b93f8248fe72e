// Evaluates a chain of LangChain.js.
import { ChatPromptTemplate } from "@langchain/core/prompts";
import { ChatOpenAI } from "@langchain/openai";
import { Answer, evaluate, type Question } from "touchstone-evals";

const { OPENAI_BASE_URL, OPENAI_API_KEY = "", MODEL = "gpt-5-mini" } = process.env;
const model = new ChatOpenAI({ model: MODEL, apiKey: OPENAI_API_KEY, configuration: { baseURL: OPENAI_BASE_URL ?? null } });
const prompt = ChatPromptTemplate.fromMessages([
  ["system", "Answer with the name of the city alone."],
  ["user", "{question}"],
]);
const chain = prompt.pipe(model);

async function agent(question: string, { signal }: Question<string>): Promise<Answer> {
  const { text, usage_metadata: usage } = await chain.invoke({ question }, { signal });
  return new Answer({ output: text, inputTokens: usage?.input_tokens, outputTokens: usage?.output_tokens });
}

const capitals = { France: "Paris", Italy: "Rome", Norway: "Oslo" };
const cases = Object.entries(capitals).map(([country, expected]) => ({ input: `Capital of ${country}?`, expected }));
const result = await evaluate({ cases, agent });
console.log(result.summary());
