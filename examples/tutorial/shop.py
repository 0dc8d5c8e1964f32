# shop.py
from pathlib import Path

from headrace import Headrace, Retry

app = Headrace()
PATIENT = Retry(10, base=5, cap=3600, on=(ConnectionError,))


def post(to: str, text: str) -> None:
    """The mail server of this tutorial: a file. It is down while `mail-is-down` exists."""
    if Path("mail-is-down").exists():
        raise ConnectionError("the mail server does not answer")
    with Path("mail.txt").open("a") as mail:
        mail.write(f"{to}: {text}\n")


@app.task(queue="mail", retry=PATIENT, timeout=30)
def send_receipt(to: str, total: int) -> str:
    post(to, f"thank you for {total} cents")
    return f"sent to {to}"


@app.task(queue="mail", retry=PATIENT, timeout=30)
def ask_for_review(to: str) -> None:
    post(to, "how do you like it?")


@app.cron("0 7 * * *", timezone="Europe/Berlin")
def report() -> int:
    letters = Path("mail.txt")
    sent = len(letters.read_text().splitlines()) if letters.exists() else 0
    post("owner@example.org", f"{sent} letters so far")
    return sent
