"""Images of containers that implement an operation: what the tool `tosca` runs of them (section 5.4.3)."""

from __future__ import annotations

from collections.abc import Mapping

from heat_config_agent.model.positions import Json
from heat_config_stack.definition import Tree
from heat_config_stack.tosca.evaluation.evaluation import NOTHING, Evaluator
from heat_config_stack.tosca.evaluation.later import as_text, computed
from heat_config_stack.tosca.files.documents import Document
from heat_config_stack.tosca.topology.topology import Part

_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2")

_LONGEST = 128
"""The most characters of a name of a container."""


def image_name(content: Mapping[str, Json], document: Document) -> str | None:
    """Return the name of an image for podman or docker: with the address of its repository, if it has one.

    `content` is the artifact with `file` and `repository`. None for an archive of an image, which is not loaded.
    """
    name = str(content["file"])
    if name.endswith(_ARCHIVES):
        return None
    repository = content.get("repository")
    if repository is None:
        return name
    url = str((document.repository(repository) or {}).get("url") or "")
    scheme, separator, address = url.partition("://")
    if scheme == "file" or (not separator and not url):
        return None
    address = (address if separator else url).strip("/")
    return f"{address}/{name.lstrip('/')}"


def container(part: Part, image: str, evaluator: Evaluator) -> dict[str, Tree]:
    """Return the config of the container of a node.

    Its ports and volumes are the properties `publish_ports` and `volumes` of the node, or else of the capability that
    hosts it.
    """
    config: dict[str, Tree] = {"name": _name(part), "image": image}
    ports, volumes = (_property(part, name, evaluator) for name in ("publish_ports", "volumes"))
    if ports:
        config["ports"] = computed(ports, _ports, "publish_ports")
    if volumes:
        config["volumes"] = computed(volumes, _texts, "volumes")
    return config


def _name(part: Part) -> str:
    return (part.id.lstrip("_") or "node")[:_LONGEST]


def _property(part: Part, name: str, evaluator: Evaluator) -> Tree:
    own = evaluator.property_value(part, name)
    if own is not NOTHING and own is not None:
        return own
    for link in part.links:
        if link.hosts and link.capability:
            value = evaluator.capability_value(link.target, link.capability, name)
            if value is not NOTHING and value is not None:
                return value
    return None


def _texts(values: Json) -> list[Json]:
    return [as_text(value) for value in values] if isinstance(values, list) else []


def _ports(values: Json) -> list[Json]:
    """Return ports as podman and docker take them: `8080:80`, `8000-8010:80-90/udp`."""
    ports = []
    for value in values if isinstance(values, list) else ():
        if not isinstance(value, Mapping):
            ports.append(as_text(value))
            continue
        ends = [_end(value, name) for name in ("source", "target")]
        known = [end for end in ends if end]
        if known:
            protocol = as_text(value.get("protocol")) or "tcp"
            suffix = "" if protocol == "tcp" else f"/{protocol}"
            ports.append(f"{known[0]}:{known[-1]}{suffix}")
    return ports


def _end(spec: Mapping[str, Json], name: str) -> str:
    """Return the ports at one end; empty for none."""
    if spec.get(name) is not None:
        return as_text(spec[name])
    limits = spec.get(f"{name}_range")
    if isinstance(limits, list | tuple) and len(limits) == 2:
        return "-".join(map(as_text, limits))
    return ""
