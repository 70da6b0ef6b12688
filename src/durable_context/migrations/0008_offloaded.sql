-- A processor may put a reference in the place of a tool's result before the turn is recorded. The result is an
-- artifact of that turn then, with source `offloaded`: named by the handle that the reference shows, and standing where
-- the message stands. Unlike that of `message` and `part`, its content is not what a raw turn shows.

alter table durable_context.artifacts
    drop constraint artifacts_source_check,
    add constraint artifacts_source_check check (source in ('message', 'part', 'put', 'offloaded'));
