#!lua flags=no-writes
-- Reads tasks as they are at one instant.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- KEYS[7..] tasks  hashes of the tasks
-- ARGV[7] count  how many ids follow
--
-- Returns {0, now µs, rows}, a row an id (include/row.lua)
--         {-1, now µs} too late
--
-- @include type guard row
local count = tonumber(ARGV[7])

local ids, rows = {}, {}
for index = 1, count do
  ids[index] = ARGV[7 + index]
end
local scores = scores_of(ids)
for index = 1, count do
  rows[index] = row_of(scores, index, KEYS[6 + index])
end
return {0, now_us, rows}
