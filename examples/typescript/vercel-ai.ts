// Evaluates an agent of the Vercel AI SDK.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, stepCountIs, tool } from "ai";
import { Answer, evaluate, type Question } from "touchstone-evals";
import { z } from "zod";

const { OPENAI_BASE_URL = "https://api.openai.com/v1", OPENAI_API_KEY = "", MODEL = "gpt-5-mini" } = process.env;
const provider = createOpenAICompatible({ name: "endpoint", baseURL: OPENAI_BASE_URL, apiKey: OPENAI_API_KEY });
const cities = new Map([["France", "Paris"], ["Italy", "Rome"], ["Norway", "Oslo"]]);

const capital = tool({
  description: "The capital of a country",
  inputSchema: z.object({ country: z.string() }),
  execute: async ({ country }) => cities.get(country) ?? "unknown",
});

async function agent(prompt: string, { signal }: Question<string>): Promise<Answer> {
  const { text, totalUsage } = await generateText({
    model: provider(MODEL),
    system: "Use the tool. Answer with the name of the city alone.",
    prompt,
    tools: { capital },
    stopWhen: stepCountIs(5),
    abortSignal: signal,
  });
  return new Answer({ output: text, inputTokens: totalUsage.inputTokens, outputTokens: totalUsage.outputTokens });
}

const cases = [...cities].map(([country, expected]) => ({ input: `Capital of ${country}?`, expected }));
const result = await evaluate({ cases, agent });
console.log(result.summary());
