"""Evaluates a graph of LangGraph: pip install touchstone-evals langgraph langchain-openai"""

import os

from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from touchstone import evaluate

CITIES = {"France": "Paris", "Italy": "Rome", "Norway": "Oslo"}


def capital(country: str) -> str:
    """The capital of a country."""
    return CITIES.get(country, "unknown")


model = ChatOpenAI(model=os.environ.get("MODEL", "gpt-5-mini")).bind_tools([capital])


async def respond(state: MessagesState) -> MessagesState:
    system = ("system", "Use the tool. Answer with the name of the city alone.")
    return {"messages": [await model.ainvoke([system, *state["messages"]])]}


builder = StateGraph(MessagesState)
builder.add_node("respond", respond)
builder.add_node("tools", ToolNode([capital]))
builder.add_edge(START, "respond")
builder.add_conditional_edges("respond", tools_condition)
builder.add_edge("tools", "respond")
graph = builder.compile()


async def agent(question: str) -> str:
    state = await graph.ainvoke({"messages": [("user", question)]})
    return state["messages"][-1].text


if __name__ == "__main__":
    cases = [{"input": f"Capital of {country}?", "expected": city} for country, city in CITIES.items()]
    print(evaluate(cases, agent).summary())
