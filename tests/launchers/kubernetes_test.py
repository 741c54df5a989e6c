"""examples/kubernetes/ against Kubernetes' published schemas, and against what the program has."""
import json
import os
import pathlib
import subprocess
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
EVERMOE = os.environ.get("EVERMOE", str(ROOT / "build" / "evermoe"))
SCHEMAS = json.loads((ROOT / "third_party" / "kubernetes" / "schemas.json").read_text())
TYPES = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "object": dict, "array": list,
         "null": type(None)}


def problems(value, schema, at):
    """What of the value is not as the schema says; the few words of JSON Schema that these schemas use."""
    if "$ref" in schema:
        return problems(value, SCHEMAS["definitions"][schema["$ref"].split("/")[-1]], at)
    if "oneOf" in schema:
        found = [problems(value, one, at) for one in schema["oneOf"]]
        return [] if sum(not one for one in found) == 1 else [f"{at}: none of the forms it may have"]
    types = schema.get("type", list(TYPES))
    types = types if isinstance(types, list) else [types]
    if not any(isinstance(value, TYPES[t]) and not (isinstance(value, bool) and t != "boolean") for t in types):
        return [f"{at}: found {value!r}, allowed: {types}"]
    result = []
    if "enum" in schema and value not in schema["enum"]:
        result.append(f"{at}: found {value!r}, allowed: {schema['enum']}")
    if isinstance(value, dict):
        result += [f"{at}: {key} is missing" for key in schema.get("required", []) if key not in value]
        for key, inner in value.items():
            if key in schema.get("properties", {}):
                result += problems(inner, schema["properties"][key], f"{at}.{key}")
            elif isinstance(schema.get("additionalProperties", False), dict):
                result += problems(inner, schema["additionalProperties"], f"{at}.{key}")
            elif "properties" in schema:
                result.append(f"{at}: there is no {key}")
    if isinstance(value, list):
        for i, inner in enumerate(value):
            result += problems(inner, schema.get("items", {}), f"{at}[{i}]")
    return result


def documents():
    for path in sorted((ROOT / "examples" / "kubernetes").glob("*.yaml")):
        yield from yaml.safe_load_all(path.read_text())


def problems_of(document):
    return problems(document, SCHEMAS["definitions"][SCHEMAS["kinds"][document["kind"]]], document["kind"])


class Kubernetes(unittest.TestCase):
    def job(self):
        return next(one for one in documents() if one["kind"] == "Job")

    def test_every_document_is_as_its_schema_says(self):
        self.assertEqual([one["kind"] for one in documents()], ["Service", "PersistentVolumeClaim", "Job"])
        for document in documents():
            self.assertEqual(problems_of(document), [])

    def test_the_schemas_find_mistakes(self):
        for change in [lambda job: job["spec"].update(completion=3), lambda job: job["spec"].update(completions="five"),
                       lambda job: job["spec"].pop("template"),
                       lambda job: job["spec"]["template"]["spec"]["containers"][0].pop("name"),
                       lambda job: job["spec"]["podFailurePolicy"]["rules"][0]["onExitCodes"].update(values=["2"])]:
            job = self.job()
            change(job)
            self.assertEqual(len(problems_of(job)), 1, problems_of(job))

    def test_names_belong_together(self):
        service, claim, job = documents()
        pods = job["spec"]["template"]
        self.assertEqual(pods["metadata"]["labels"], service["spec"]["selector"])
        self.assertEqual(pods["spec"]["subdomain"], service["metadata"]["name"])
        self.assertEqual(pods["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], claim["metadata"]["name"])
        node = pods["spec"]["containers"][0]
        self.assertIn(f"--join={job['metadata']['name']}-0.{service['metadata']['name']}"
                      f":{service['spec']['ports'][0]['port']}", node["args"])
        self.assertIn(f"--nodes={job['spec']['completions']}", node["args"])
        self.assertEqual(job["spec"]["completions"], job["spec"]["parallelism"])
        for rule in job["spec"]["podFailurePolicy"]["rules"][:2]:
            self.assertEqual(rule["onExitCodes"]["containerName"], node["name"])
        hook = node["lifecycle"]["preStop"]["exec"]["command"][-1]
        self.assertLess(int(hook.split()[-1]), pods["spec"]["terminationGracePeriodSeconds"])

    def test_the_program_knows_these_flags(self):
        node = self.job()["spec"]["template"]["spec"]["containers"][0]
        self.assertEqual(node["command"][:2], ["evermoe", "node"])
        known = subprocess.run([EVERMOE, "node", "--help"], capture_output=True, text=True, timeout=60).stdout
        for argument in node["args"]:
            self.assertIn(argument.split("=")[0] + " ", known)


if __name__ == "__main__":
    unittest.main(verbosity=2)
