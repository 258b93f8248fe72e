"""An S3-compatible service on loopback with the bucket `runs`. It prints its port, and ends with stdin."""

import sys

import boto3
from moto.server import ThreadedMotoServer

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
boto3.client("s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1").create_bucket(Bucket="runs")
print(port, flush=True)
sys.stdin.read()
server.stop()
