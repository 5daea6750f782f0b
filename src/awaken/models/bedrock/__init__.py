"""Models at Amazon Bedrock through its Converse API: Nova, Llama, Mistral and others."""

from awaken.models.bedrock.executor import BedrockConverse, open_bedrock_converse

__all__ = ["BedrockConverse", "open_bedrock_converse"]
