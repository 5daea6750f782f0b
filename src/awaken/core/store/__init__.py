"""The Protocols that stores, models, tools and backends implement, and the values they exchange."""
