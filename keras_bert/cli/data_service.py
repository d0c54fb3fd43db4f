"""Command `keras-bert data-service`: makes batches for other machines."""

import click


@click.command("data-service")
@click.option(
    "--port", default=5050, show_default=True, help="Port that runs connect to; 0: any free port."
)
@click.option(
    "--worker-port", default=5051, show_default=True, help="Port of the batches; 0: any free port."
)
@click.option(
    "--host",
    help="Name under which runs reach this machine; default: its host name. It does not limit "
    "who can connect.",
)
@click.option(
    "--listen-on-all-interfaces",
    is_flag=True,
    help="Required: TensorFlow always listens on all interfaces.",
)
def command(port: int, worker_port: int, host: str | None, listen_on_all_interfaces: bool) -> None:
    """Make batches for pretraining on other machines, until stopped.

    Start this command on every machine that makes batches. A pretraining run names all of them:
    devices.data_service=[HOST:PORT, HOST:PORT]. The records must have the same path everywhere.

    TensorFlow's server listens on all network interfaces, even with --host 127.0.0.1, and asks for
    no password. Anyone who can reach the two ports can read and write files as the user of this
    command. Use a firewall or a network policy that admits only the machines of the run.
    """
    import socket
    import threading

    from keras_bert.pretraining.data.data_service import DataHost

    server = DataHost(
        port,
        worker_port,
        host or socket.gethostname(),
        listen_on_all_interfaces=listen_on_all_interfaces,
    )
    click.echo(f"{server.address}: ready")
    threading.Event().wait()  # until a signal; `server.join` would ignore it
