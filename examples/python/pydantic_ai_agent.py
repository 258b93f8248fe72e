"""Evaluates an agent of Pydantic AI: pip install touchstone-evals "pydantic-ai-slim[openai]" """

import os

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from touchstone import Answer, evaluate

CITIES = {"France": "Paris", "Italy": "Rome", "Norway": "Oslo"}

assistant = Agent(
    OpenAIChatModel(os.environ.get("MODEL", "gpt-5-mini")),
    instructions="Use the tool. Answer with the name of the city alone.",
)


@assistant.tool_plain
def capital(country: str) -> str:
    """The capital of a country."""
    return CITIES.get(country, "unknown")


async def agent(question: str) -> Answer:
    result = await assistant.run(question)
    usage = result.usage
    return Answer(result.output, input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)


if __name__ == "__main__":
    cases = [{"input": f"Capital of {country}?", "expected": city} for country, city in CITIES.items()]
    print(evaluate(cases, agent).summary())
