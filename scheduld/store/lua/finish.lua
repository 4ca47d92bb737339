#!lua flags=allow-oom
-- Stores the ends of runs: done, retry, dead, snooze, release.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- KEYS[7..] tasks        hashes of the verdicts' tasks
-- ARGV[7] verdict_count  how many verdicts follow, seven arguments each: id, fence, kind,
--                        ms (retry, release: wait; snooze: instant), detail (JSON: result or
--                        error), reason (one line for the events), counted ('1': an attempt)
--
-- Returns {0, now µs, codes}: 1 stored, 2 stored before, 3 refused
--         {-1, now µs} too late
--
-- @include type events ends settle
local verdict_count = ARGV[7]

local codes = settle_all(8, 7, tonumber(verdict_count))
write_events()
return {0, now_us, codes}
