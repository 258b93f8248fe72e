"""Evaluates an agent of the OpenAI Agents SDK: pip install touchstone-evals openai-agents"""

import os

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool
from openai import AsyncOpenAI
from touchstone import Answer, evaluate

CITIES = {"France": "Paris", "Italy": "Rome", "Norway": "Oslo"}


@function_tool
def capital(country: str) -> str:
    """The capital of a country."""
    return CITIES.get(country, "unknown")


assistant = Agent(
    name="Capitals",
    instructions="Use the tool. Answer with the name of the city alone.",
    # Other endpoints than that of OpenAI have no Responses API.
    model=OpenAIChatCompletionsModel(os.environ.get("MODEL", "gpt-5-mini"), AsyncOpenAI()),
    tools=[capital],
)


async def agent(question: str) -> Answer:
    result = await Runner.run(assistant, question)
    usage = result.context_wrapper.usage
    return Answer(result.final_output, input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)


if __name__ == "__main__":
    cases = [{"input": f"Capital of {country}?", "expected": city} for country, city in CITIES.items()]
    print(evaluate(cases, agent).summary())
