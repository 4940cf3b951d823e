#!/usr/bin/env python3
"""dns.py PKI ADDRESS PORT: names of Services and of a StatefulSet's pods, on ADDRESS:53 (UDP).

Each question is a question to the API server at ADDRESS:PORT, so an answer is never older than that. It knows A records
below svc.cluster.local, and nothing else: enough for tests, no DNS for anybody's cluster.
"""
import http.client
import ipaddress
import json
import socket
import ssl
import struct
import sys
import threading

PKI, ADDRESS, PORT = sys.argv[1], sys.argv[2], int(sys.argv[3])
DOMAIN = "svc.cluster.local"
SECONDS = 1


def get(path):
    trust = ssl.create_default_context(cafile=f"{PKI}/ca.crt")
    trust.load_cert_chain(f"{PKI}/admin.crt", f"{PKI}/admin.key")
    connection = http.client.HTTPSConnection(ADDRESS, PORT, context=trust, timeout=3)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return json.load(response) if response.status == 200 else None
    finally:
        connection.close()


def addresses(name):
    """None: there is no such name."""
    if not name.endswith("." + DOMAIN):
        return None
    parts = name[: -len(DOMAIN) - 1].split(".")
    if len(parts) == 2:
        service = get(f"/api/v1/namespaces/{parts[1]}/services/{parts[0]}")
        if service is None:
            return None
        if service["spec"].get("clusterIP") not in (None, "", "None"):
            return [service["spec"]["clusterIP"]]
        chosen = ",".join(f"{key}%3D{value}" for key, value in (service["spec"].get("selector") or {}).items())
        pods = get(f"/api/v1/namespaces/{parts[1]}/pods?labelSelector={chosen}")
        return [pod["status"]["podIP"] for pod in pods["items"] if pod["status"].get("podIP")]
    if len(parts) == 3:
        pod = get(f"/api/v1/namespaces/{parts[2]}/pods/{parts[0]}")
        if pod is None or pod["spec"].get("subdomain") != parts[1] or not pod["status"].get("podIP"):
            return None
        return [pod["status"]["podIP"]]
    return None


def answer(query):
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode().lower())
        at += 1 + query[at]
    (kind,) = struct.unpack(">H", query[at + 1 : at + 3])
    found = addresses(".".join(labels))
    records = b""
    count = 0
    for address in (found or []) if kind == 1 else []:
        # The name is the one of the question, which is at byte 12.
        records += b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, SECONDS, 4) + ipaddress.ip_address(address).packed
        count += 1
    flags = 0x8580 if found is not None else 0x8583
    return query[:2] + struct.pack(">HHHHH", flags, 1, count, 0, 0) + query[12 : at + 5] + records


def serve(door, query, sender):
    try:
        door.sendto(answer(query), sender)
    except Exception as error:  # The next question is another one.
        print(repr(error), flush=True)


def main():
    door = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    door.bind((ADDRESS, 53))
    while True:
        query, sender = door.recvfrom(2048)
        threading.Thread(target=serve, args=(door, query, sender), daemon=True).start()


if __name__ == "__main__":
    main()
