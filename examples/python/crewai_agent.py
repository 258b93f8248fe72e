"""Evaluates an agent of CrewAI: pip install touchstone-evals crewai"""

import os

from crewai import LLM, Agent
from crewai.tools import tool
from touchstone import Answer, evaluate

CITIES = {"France": "Paris", "Italy": "Rome", "Norway": "Oslo"}


@tool
def capital(country: str) -> str:
    """The capital of a country."""
    return CITIES.get(country, "unknown")


def agent(question: str) -> Answer:
    assistant = Agent(
        role="Geographer",
        goal="Use the tool. Answer with the name of the city alone.",
        backstory="You know the capitals of all countries.",
        llm=LLM(model=os.environ.get("MODEL", "openai/gpt-5-mini")),
        tools=[capital],
    )
    result = assistant.kickoff(question)
    usage = result.usage_metrics or {}
    return Answer(result.raw, input_tokens=usage.get("prompt_tokens"), output_tokens=usage.get("completion_tokens"))


if __name__ == "__main__":
    cases = [{"input": f"Capital of {country}?", "expected": city} for country, city in CITIES.items()]
    print(evaluate(cases, agent).summary())
