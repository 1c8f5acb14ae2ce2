"""Clusters by the names that `launch context` gives them."""


def test_one_command_goes_to_another_cluster_than_the_current_one(cluster, tmp_path):
    cluster.up()
    token = cluster.launch("token", "create", "--user", "ana").stdout
    cluster.launch("login", "--as", "lab", stdin=token)
    node = cluster.launch("nodes", "-o", "name").stdout
    assert node.strip()
    # Neither the variables nor an embedded cluster come before the name.
    elsewhere = {"LAUNCH_STATE_DIR": str(tmp_path / "none"), "LAUNCH_CONTROLLER": "127.0.0.1:1", "LAUNCH_CREDENTIALS": "/none"}
    assert cluster.launch("--context", "lab", "nodes", "-o", "name", env=elsewhere).stdout == node
    assert cluster.launch("nodes", "-o", "name", "--context", "lab", env=elsewhere).stdout == node
    cluster.launch("nodes", code=5, env=elsewhere)

    unknown = cluster.launch("queue", "--context", "lba", code=None, env=elsewhere)
    assert unknown.returncode != 0 and "lba" in unknown.stderr and "lab" in unknown.stderr.replace("lba", ""), unknown.stderr
    both = cluster.launch("queue", "--context", "lab", "--controller", "127.0.0.1:1", code=2)
    assert "excludes" in both.stderr, both.stderr
    two = cluster.launch("down", "other", "--context", "lab", code=2)
    assert "are two clusters" in two.stderr, two.stderr
