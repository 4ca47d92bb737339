#!lua flags=allow-oom
-- Removes ended tasks beyond their retention, a bounded number a call.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- ARGV[7]  done_count  retention of done tasks: number ...
-- ARGV[8]  done_age    ... and age in ms
-- ARGV[9]  dead_count  retention of dead tasks: number ...
-- ARGV[10] dead_age    ... and age in ms
-- ARGV[11] limit       most tasks to remove of each
--
-- Returns {0, now µs, removed}
--         {-1, now µs} too late
--
-- @include type guard anew prune
local done_count, done_age, dead_count, dead_age = ARGV[7], ARGV[8], ARGV[9], ARGV[10]
local limit = tonumber(ARGV[11])

local removed = prune(done, tonumber(done_count), tonumber(done_age), limit)
  + prune(dead, tonumber(dead_count), tonumber(dead_age), limit)
return {0, now_us, removed}
