"""The paper's tables and figures, each from one command: `rovrl paper list | run LABEL | check`."""
