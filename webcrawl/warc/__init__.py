"""The archive: WARC 1.1 records, the files they stand in, recovery after a crash, a validator."""
