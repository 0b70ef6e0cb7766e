"""E-mail: recipients, subject, text, and the error without a mail server."""

from __future__ import annotations

import dataclasses
import smtplib

import pytest
from django.core import mail
from django.core.mail import EmailMessage
from pytest_django import Settings

from monitoring.channels import email
from monitoring.channels.message import Message
from monitoring.models import Channel
from tests.monitoring.channels.conftest import deliver_test


def test_mail_goes_to_every_recipient_and_an_error_says_when_no_server_is_set(
    db: None, settings: Settings
) -> None:
    channel = Channel.objects.create(name="mail", kind="email", target="a@x.org, b@x.org")
    assert deliver_test(channel).error.startswith("No mail server is set")
    settings.EMAIL_HOST, settings.UNDERSTUDY_URL = "mail.example", "https://us.example/"
    other = Channel.objects.create(name="mail 2", kind="email", target="a@x.org, b@x.org")
    assert deliver_test(other).state == "sent"
    [sent] = mail.outbox
    assert sent.to == ["a@x.org", "b@x.org"]
    assert "https://us.example/alerts/" in sent.body


def test_a_rejected_test_message_says_why_and_is_tried_once(
    db: None, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: EmailMessage) -> int:
        raise smtplib.SMTPDataError(451, b"try later")

    settings.EMAIL_HOST = "mail.example"
    monkeypatch.setattr(EmailMessage, "send", refuse)
    channel = Channel.objects.create(name="mail", kind="email", target="a@x.org")
    failed = deliver_test(channel)
    assert failed.state == "dead"
    assert failed.error == "The mail server rejected the message (SMTPDataError)."


def test_the_subject_is_one_line_whatever_the_sentence_holds(message: Message) -> None:
    subject, text = email.subject_and_text(dataclasses.replace(message, sentence="is\nbehind"))
    assert subject == "[critical] east→west is behind"
    assert "Runbook: https://us.example/alerts/runbooks/time_lag/" in text


@pytest.mark.parametrize(
    ("target", "good"), [("a@x.org", True), ("a@x.org, b@x.org", True), ("nobody", False)]
)
def test_the_target_is_a_list_of_addresses(target: str, good: bool) -> None:
    assert (email.check_target(target) is None) is good
