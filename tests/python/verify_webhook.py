"""Reads deliveries with the client library of Standard Webhooks and says of each whether it holds.

    verify_webhook.py < DELIVERIES

DELIVERIES is a JSON list of {"secret", "headers", "body"}. Prints a list of what the library made of each: the document, or null
where it refused.
"""

import json
import sys

from standardwebhooks.webhooks import Webhook, WebhookVerificationError


def read(delivery):
    try:
        return Webhook(delivery["secret"]).verify(delivery["body"], delivery["headers"])
    except WebhookVerificationError:
        return None


print(json.dumps([read(delivery) for delivery in json.load(sys.stdin)]))
