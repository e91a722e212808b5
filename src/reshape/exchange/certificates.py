"""A certificate that is made in memory, for sessions that ask for encryption and have no files for it.

One for each application: its driver makes it, and the key reaches tasks with the Spark job, as the secret does. Tasks
show it too, so nobody without the key gets as far as a call.
"""

from __future__ import annotations

import datetime as dt
from functools import cache

from reshape.errors import UnsuitableSession
from reshape.exchange.transport.access import Tls

NAME = "reshape"
# An application that runs for longer would have to make another one.
_VALID = dt.timedelta(days=3650)
# Clocks of machines differ.
_SLACK = dt.timedelta(days=1)


def check_cryptography(where: str) -> None:
    """Raise unless the package that certificates and encrypted files need can be imported."""
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise UnsuitableSession(
            f"this session asks for encryption, and {where} has no package cryptography, which flows need for it: "
            "install it there (pip install 'reshape[tls]')"
        ) from error


@cache
def own_certificate() -> Tls:
    """The certificate of this application, signed by itself."""
    check_cryptography("the driver")
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SLACK)
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM).decode()
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Tls(pem, secret.decode(), pem, NAME, mutual=True)
