(function_declaration name: (_) @name) @function
(assignment_statement
  (variable_list . name: (_) @name)
  (expression_list . value: (function_definition))) @function
(chunk (variable_declaration (assignment_statement (variable_list . name: (identifier) @name))) @variable)
(chunk (variable_declaration (variable_list . name: (identifier) @name)) @variable)
(field name: (identifier) @name value: (function_definition)) @function
