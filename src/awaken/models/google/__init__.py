"""Google's Gemini models, through `google-genai`."""

from awaken.models.google.executor import GoogleGemini, open_google, open_google_vertex

__all__ = ["GoogleGemini", "open_google", "open_google_vertex"]
