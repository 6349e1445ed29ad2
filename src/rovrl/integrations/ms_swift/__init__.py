"""RoVR-GSPO on ms-swift: `swift rlhf --rlhf_type grpo --external_plugins $(rovrl plugin ms-swift) ...` (docs/ms-swift.md)."""
