"""The file for ms-swift's `--external_plugins`: its GRPO trainer becomes ours, which changes two statistics of it.

`rovrl plugin ms-swift` prints this file's path. Settings: ROVRL_REWARD_CHANNEL and ROVRL_RATIO_CHANNEL in the environment.
"""

from rovrl.integrations.ms_swift import register

register()
