#!lua flags=no-writes
-- Reads one field of each of some tasks.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- KEYS[7..] tasks  hashes of the tasks
-- ARGV[7] field  name of the field
-- ARGV[8] stop   '' or the text before which a value is cut off
-- ARGV[9] count  how many tasks
--
-- Returns {0, now µs, values}: '' where there is no such field, or no hash
--         {-1, now µs} too late
--
-- @include type guard
local field, stop, count = ARGV[7], ARGV[8], tonumber(ARGV[9])

local values = {}
for index = 1, count do
  local value = redis.pcall('HGET', KEYS[6 + index], field)
  local size = stop ~= '' and type(value) == 'string' and string.find(value, stop, 1, true)
  values[index] = size and string.sub(value, 1, size - 1) or type(value) == 'string' and value or ''
end
return {0, now_us, values}
