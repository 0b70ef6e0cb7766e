"""E-mail through the SMTP server of the deployment."""

from __future__ import annotations

import re
import smtplib
from datetime import datetime

from django.conf import settings
from django.core.mail import EmailMessage

from mirrors.outbound_http import Outcome
from monitoring.channels.base import ChannelType, resolve_reference
from monitoring.channels.message import Message
from monitoring.models import Channel, ChannelKind

_ADDRESS = re.compile(r"[^@\s,]+@[^@\s,]+")


def subject_and_text(message: Message) -> tuple[str, str]:
    lines = [f"{message.subject} {message.sentence}.", ""]
    lines += [
        f"Rule: {message.rule} ({message.severity})",
        f"At: {message.at:%Y-%m-%d %H:%M:%S} UTC",
    ]
    lines += [f"{name}: {link}" for name, link in message.links]
    return " ".join(message.title.split())[:200], "\n".join(lines) + "\n"


def send(channel: Channel, message: Message, now: datetime) -> Outcome:
    if not settings.EMAIL_HOST:
        return Outcome(False, "No mail server is set: UNDERSTUDY_SMTP_HOST of the service watch.")
    subject, text = subject_and_text(message)
    recipients = [one for one in _split(resolve_reference(channel.target)) if one]
    headers = {"Message-ID": f"<{message.key}@understudy>", "X-Understudy-Delivery": message.key}
    try:
        EmailMessage(subject, text, to=recipients, headers=headers).send()
    except (smtplib.SMTPException, OSError) as error:
        reason = f"The mail server rejected the message ({type(error).__name__})."
        return Outcome(False, reason, again=True)
    return Outcome(True)


def check_target(target: str) -> str | None:
    good = all(_ADDRESS.fullmatch(one) for one in _split(target))
    return None if good else "Enter e-mail addresses, separated by commas."


def _split(target: str) -> list[str]:
    return [part.strip() for part in target.split(",")]


EMAIL = ChannelType(kind=ChannelKind.EMAIL, title="E-mail", send=send, check_target=check_target)
