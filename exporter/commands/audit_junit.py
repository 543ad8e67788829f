"""``audit --output junit``: the result as JUnit's XML, which pipelines show: a test case for each kind of finding."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

from exporter.audit_results.result import AuditResult
from exporter.bounds.text import printable
from exporter.core.instants import instant


def junit(result: AuditResult) -> str:
    """A failure for a kind that was found, with its examples; an error for what is not known."""
    suite = ET.Element("testsuite", name=f"audit {result.audit}", timestamp=instant(result.finished_at) or "")
    found = {finding.kind: finding for finding in result.findings}
    for kind in dict.fromkeys((*result.checked, *found)):
        case = ET.SubElement(suite, "testcase", classname=f"audit.{result.audit}", name=kind)
        if (finding := found.get(kind)) is not None:
            failure = ET.SubElement(case, "failure", message=f"{finding.count} in {finding.topic}", type=kind)
            failure.text = "\n".join(printable(json.dumps(example)) for example in finding.examples)
    case = ET.SubElement(suite, "testcase", classname=f"audit.{result.audit}", name="all is known")
    for sentence in result.unknown:
        ET.SubElement(case, "error", message=printable(sentence), type="unknown")
    suite.set("tests", str(len(suite.findall("testcase"))))
    suite.set("failures", str(len(found)))
    suite.set("errors", str(int(bool(result.unknown))))
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True)
