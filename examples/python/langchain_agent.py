"""Evaluates an agent of LangChain: pip install touchstone-evals langchain langchain-openai"""

import os

from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_openai import ChatOpenAI
from touchstone import Answer, evaluate

CITIES = {"France": "Paris", "Italy": "Rome", "Norway": "Oslo"}


def capital(country: str) -> str:
    """The capital of a country."""
    return CITIES.get(country, "unknown")


assistant = create_agent(
    ChatOpenAI(model=os.environ.get("MODEL", "gpt-5-mini")),
    tools=[capital],
    system_prompt="Use the tool. Answer with the name of the city alone.",
)


async def agent(question: str) -> Answer:
    state = await assistant.ainvoke({"messages": [("user", question)]})
    used = [message.usage_metadata for message in state["messages"] if isinstance(message, AIMessage)]
    return Answer(
        state["messages"][-1].text,
        input_tokens=sum(one["input_tokens"] for one in used if one),
        output_tokens=sum(one["output_tokens"] for one in used if one),
    )


if __name__ == "__main__":
    cases = [{"input": f"Capital of {country}?", "expected": city} for country, city in CITIES.items()]
    print(evaluate(cases, agent).summary())
