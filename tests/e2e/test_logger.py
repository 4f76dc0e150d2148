"""What is logged is seen and set while the server runs."""

import json


def test_what_is_logged_can_be_set(own_server):
    http = own_server.http()

    def ask(method, body=None):
        status, _, answer = http.raw(method, "/logger", None if body is None else json.dumps(body))
        return status, json.loads(answer)

    status, told = ask("GET")
    assert status == 200 and told["result"]["log_level"] .split(",") in (["info", "h2=error"], ["h2=error", "info"]), told
    assert ask("POST", {"log_level": "warn,ramlet=debug"})[0] == 200
    assert "ramlet=debug" in ask("GET")[1]["result"]["log_level"]
    # What isn't given stays.
    assert ask("POST", {})[0] == 200
    assert "ramlet=debug" in ask("GET")[1]["result"]["log_level"]
    for bad in [{"log_level": "ramlet=sometimes"}, {"log_level": 7}, {"format": "json"}, {"span_events": ["new"]}, {"color": True}, {"on_disk": {"enabled": True}}]:
        assert ask("POST", bad)[0] == 400, bad
    assert "ramlet=debug" in ask("GET")[1]["result"]["log_level"]
    http.close()
