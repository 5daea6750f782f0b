-- Holds the number of a migration that is made elsewhere; it goes when that one is merged.
SELECT 1;
